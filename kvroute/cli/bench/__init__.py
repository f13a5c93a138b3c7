"""`kvroute bench`: one file per benchmark."""
