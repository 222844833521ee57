"""Clients, for programs outside a node: ``Publisher`` and ``Subscriber``."""

from middleware.model.errors import NetworkError
from middleware.runtime.clients.publisher import Publisher, PublisherStatistics, Receipt
from middleware.runtime.clients.subscriber import Consistency, Subscriber, SubscriberStatistics

__all__ = ["Consistency", "NetworkError", "Publisher", "PublisherStatistics", "Receipt", "Subscriber", "SubscriberStatistics"]
