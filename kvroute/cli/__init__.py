"""The `kvroute` command: one file per subcommand."""
