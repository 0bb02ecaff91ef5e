"""How long an end may take: the deadlines of what it is asked, one after the other."""

from __future__ import annotations

from sluice.clients import oauth

# For a connection, and for each answer in its handshake.
CONNECT_SECONDS = 5.0
# For a request's answer.
ANSWER_SECONDS = 8.0
# Connection and TLS, each of them a second time to see the certificate of a server that is not trusted.
HANDSHAKE_SECONDS = 4 * CONNECT_SECONDS
_TOKEN_SECONDS = oauth.CONNECT_SECONDS + oauth.ANSWER_SECONDS
# Kafka is asked the most: who gives its tokens, for certificate, clock and token; each broker, at the same
# time, for its certificate; cluster, broker, topics and groups, where a request is repeated while leaders
# move; and a transactional id of producers and one of consumers.
END_SECONDS = 2 * HANDSHAKE_SECONDS + _TOKEN_SECONDS + (1 + 4 * 2 + 2) * ANSWER_SECONDS
