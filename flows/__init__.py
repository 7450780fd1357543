"""Prefect flows: stages as coarse tasks. Prefect reads its settings when it is imported."""

from flows.embedded import use_embedded_server

use_embedded_server()
