"""What is told of each request once it is over: to the access log, to a recording, to a tracing backend."""
