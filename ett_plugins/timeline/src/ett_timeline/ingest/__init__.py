"""Timelines of jobs that were not measured by us, from the events that their logs tell of."""
