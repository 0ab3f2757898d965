"""Real Kafka clusters as local processes, to be hurt on purpose. `Lab` is the door."""

from pipelines.lab.cluster import Lab
from pipelines.lab.config import LabSpec, Ports
from pipelines.lab.hosts import Host
from pipelines.lab.node import Fault, Node
from pipelines.lab.security import Credentials, Login
from pipelines.lab.volumes import DataCopy

__all__ = ["Credentials", "DataCopy", "Fault", "Host", "Lab", "LabSpec", "Login", "Node", "Ports"]
