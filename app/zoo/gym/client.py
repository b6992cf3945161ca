"""Our client under the published method names: takes part in rounds, on a server or in a folder."""

from zoo.gym.published.client import Client, CommunityResult, Contributed

__all__ = ["Client", "CommunityResult", "Contributed"]
