"""The exceptions that users of this package meet.

Every message is one line: what is wrong, where, and the cure.
"""


class FloorgentError(Exception):
    """Base of every error that this package raises on purpose."""


class MapError(FloorgentError):
    """An occupancy grid that cannot be used."""


class PlanError(FloorgentError):
    """A floor plan, or a folder of them, that cannot be used."""


class CheckpointError(FloorgentError):
    """Model weights that are missing, broken or of another architecture."""


class ConfigError(FloorgentError):
    """A setting outside its range."""


class BagError(FloorgentError):
    """A recorded bag that cannot be used."""
