"""The demo model: fetched from a package registry, converted once, cached."""
