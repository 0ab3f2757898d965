"""The doors to the brokers: one package or module a system, behind the small protocols of `base`."""
