"""llama.cpp as an engine that answers: GGUF files, and LoRA adapters in GGUF.

`server` is llama.cpp's own, in this process and asked for one token at a time; `batcher` has many
rows of it, `answerer` is what a chat asks; `adapter` refuses files that llama.cpp would misread.
Prompts are tokens: `zoo.models.gguf.text_files` has the tokenizer. Nothing is trained here.
"""
