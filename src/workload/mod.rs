//! Tokenizer, corpus, lengths, prompts.
