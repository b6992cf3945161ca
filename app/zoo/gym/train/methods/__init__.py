"""The training methods, a file for each; `zoo.gym.config.stages` lists them."""
