"""For programs outside a node: ``Publisher`` and ``Subscriber``."""

from middleware.errors import NetworkError
from middleware.runtime.publisher import Publisher, PublisherStatistics, Receipt
from middleware.runtime.subscriber import Consistency, Subscriber, SubscriberStatistics

__all__ = ["Consistency", "NetworkError", "Publisher", "PublisherStatistics", "Receipt", "Subscriber", "SubscriberStatistics"]
