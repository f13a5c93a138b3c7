"""The demonstration: the same requests under two routing policies, measured and checked.

Pure parts: `corpus` (text), `workload` (requests), `summary` (figures), `checks` (what must hold).
`measure` speaks to a fleet, `report` to people.
"""
