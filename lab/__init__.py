"""Questions, the runner that answers them, their records, and the tables and figures made of these."""
