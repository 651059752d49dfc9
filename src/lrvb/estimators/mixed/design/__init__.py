"""A formula and a table become arrays, each checked."""
