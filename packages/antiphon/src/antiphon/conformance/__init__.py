"""`antiphon check`: what agent clients need of a server, as numbered checks that any server can be held to over the wire.

Three layers. `asks` say what to send, `driver` sends it and records the exchanges, and judges, which are pure functions over
recorded exchanges, decide. A judge never guesses: what the model did not do is undecided, with the reason.
"""
