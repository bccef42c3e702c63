"""Which worker serves a prompt: pure functions over plain data. Sockets, clocks and processes are outside."""
