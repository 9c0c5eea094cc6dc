"""Simulation and what-if as the command line and the console use them."""
