"""The paths of the interface, by what they are about; each over what `serving.running` shares."""
