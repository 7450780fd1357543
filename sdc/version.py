"""The version of the software, for what must not import the package's verbs."""

VERSION = "0.2.0"
