"""The panels of an incident's page, by noun. Each builds a `View` from a `Request`; dashboards/pages/incident.py puts them together."""
