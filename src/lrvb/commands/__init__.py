"""The subcommands of `lrvb`: one file each, with `add` for its options and `run` for its work."""
