"""A client that loses its rights to one topic and keeps them to another, as its library comes:
TOKEN=bps1... python3 revoked.py confluent|kafka-python HOST:PORT,... CA.pem ACCOUNT GONE KEPT GROUP

It produces to both topics and consumes GONE as a member of GROUP, without end. Of what works it prints a line each, "gone"
or "kept"; of what is refused "refused" and why. It changes none of the library's retries and pauses."""
import os
import sys
import threading
import time

library, brokers, ca, account, gone, kept, group = sys.argv[1:]
token = os.environ["TOKEN"]
printing = threading.Lock()


def say(*words):
    with printing:
        print(*words, flush=True)


def forever(step):
    """Runs step again and again; a library that gives up is started anew, as by whoever runs it."""

    def run():
        while True:
            try:
                step()
            except Exception as e:  # the library's own, many kinds
                say("refused", step.__name__, repr(e)[:300])
                time.sleep(1)

    threading.Thread(target=run, daemon=True).start()


if library == "confluent":
    from confluent_kafka import Consumer, Producer

    common = {
        "bootstrap.servers": brokers, "security.protocol": "SASL_SSL", "ssl.ca.location": ca,
        "sasl.mechanism": "PLAIN", "sasl.username": account, "sasl.password": token,
    }

    def produce(topic, word):
        producer = Producer(common)

        def told(error, _):
            say("refused", topic, error) if error else say(word)

        while True:
            producer.produce(topic, b"x", callback=told)
            producer.poll(0.2)

    def consume():
        consumer = Consumer({**common, "group.id": group, "auto.offset.reset": "earliest"})
        consumer.subscribe([gone])
        while True:
            message = consumer.poll(1)
            if message is not None and message.error():
                say("refused", gone, message.error())
else:
    from kafka import KafkaConsumer, KafkaProducer

    common = {
        "bootstrap_servers": brokers.split(","), "security_protocol": "SASL_SSL", "ssl_cafile": ca,
        "sasl_mechanism": "PLAIN", "sasl_plain_username": account, "sasl_plain_password": token,
        "api_version": (2, 5, 0),  # it asks for what brokers of this version serve, and does not probe
    }

    def produce(topic, word):
        producer = KafkaProducer(**common)
        try:
            while True:
                producer.send(topic, b"x").get(60)
                say(word)
                time.sleep(0.2)
        finally:
            producer.close(1)

    def consume():
        consumer = KafkaConsumer(gone, group_id=group, **common)
        try:
            for _ in consumer:
                pass
        finally:
            consumer.close(False)


def produce_gone():
    produce(gone, "gone")


def produce_kept():
    produce(kept, "kept")


for step in (produce_gone, produce_kept, consume):
    forever(step)
threading.Event().wait()
