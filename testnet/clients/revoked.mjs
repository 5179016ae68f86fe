// kafkajs as a client that loses its rights to one topic and keeps them to another, with its own retries and pauses:
// TOKEN=bps1... node revoked.mjs HOST:PORT,... CA.pem ACCOUNT GONE KEPT GROUP
// It produces to both and consumes GONE, without end. Of what works it prints a line each, "gone" or "kept"; of what is
// refused "refused" and why.
import { readFileSync } from "node:fs";
import { Kafka, logLevel } from "kafkajs";
import { limitMillis, pause } from "./check.mjs";

const [brokers, ca, account, gone, kept, group] = process.argv.slice(2);
const kafka = new Kafka({
  clientId: "kafkajs", brokers: brokers.split(","), ssl: { ca: [readFileSync(ca)] },
  sasl: { mechanism: "plain", username: account, password: process.env.TOKEN }, logLevel: logLevel.NOTHING,
  connectionTimeout: limitMillis, authenticationTimeout: limitMillis, // its second for TCP and TLS is short on a busy machine
});

async function produce(topic, word) {
  for (;;) { // a library that gives up is started anew, as by whoever runs it
    const producer = kafka.producer({ allowAutoTopicCreation: false });
    try {
      await producer.connect();
      for (;;) {
        await producer.send({ topic, messages: [{ value: "x" }] });
        console.log(word);
        await pause(200);
      }
    } catch (e) {
      console.log("refused", topic, e.message);
    }
    await producer.disconnect().catch(() => {});
    await pause(1000);
  }
}

async function consume() {
  for (;;) {
    const consumer = kafka.consumer({ groupId: group, allowAutoTopicCreation: false });
    const crashed = new Promise((_, reject) => consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error)));
    try {
      await consumer.connect();
      await consumer.subscribe({ topics: [gone] });
      await consumer.run({ eachMessage: async () => {} });
      await crashed;
    } catch (e) {
      console.log("refused", gone, e.message);
    }
    await consumer.disconnect().catch(() => {});
    await pause(1000);
  }
}

await Promise.all([produce(gone, "gone"), produce(kept, "kept"), consume()]);
