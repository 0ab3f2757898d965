"""What is there to see of a broker, and who looks? Each collector is a process of its own that writes to its spool."""
