"""The words and the rules of measuring: pure, standard library only, no I/O except reading a clock in `clock`."""
