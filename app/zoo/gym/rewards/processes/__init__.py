"""Child processes of rewards: started by argv, limited in time, killed with their children."""
