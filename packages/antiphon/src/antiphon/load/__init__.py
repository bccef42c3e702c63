"""Load as agents make it: what is asked when, as plain data; and who asks it of a server."""
