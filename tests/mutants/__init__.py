"""One-operator changes of the core: the tests must notice each of them (`make mutants`)."""
