"""The tables and pictures of the docs, each made from files in ``results/``; ``results_table.py`` places them."""
