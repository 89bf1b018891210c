"""What a machine needs before anything is built: Python packages, libclang, a compiler, and what a failed build says."""
