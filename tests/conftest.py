"""Being here makes the helpers beside it importable from every folder of tests."""
