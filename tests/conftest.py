"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# No test is timed: a machine that is busy with something else must not fail it.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
