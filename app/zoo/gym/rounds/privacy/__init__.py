"""Differential privacy of a round: what noise a promise needs, and the noise itself.

One contributor is the unit: whoever sees the published sum learns little about whether any one of
them took part. It is no protection from the aggregator, who sees every contribution.
"""
