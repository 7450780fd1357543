"""An independent verifier. It checks claims of safety from the files and shares only names with the rest of sdc."""
