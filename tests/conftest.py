"""What holds for every test."""

from hypothesis import settings

# A property that takes long on a machine that does something else has not failed; pytest's own limit ends one that hangs.
settings.register_profile("lastack", deadline=None)
settings.load_profile("lastack")
