"""Files and fine-tuning jobs, which are runs of the base, by OpenAI's API."""
