"""Output formats that a model declares itself, in Hugging Face's `response_template`, read into our own grammars."""
