"""What tests of several folders set up and check with. No test module imports another (tests/unit/test_kits.py)."""
