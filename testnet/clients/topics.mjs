// kafkajs against a broker: TOKEN=bps1... node topics.mjs HOST:PORT,... CA.pem ACCOUNT TOPIC GROUP [plain|oauthbearer]
// The topic exists, is empty, and the account may write, read and describe it and take part in the group; FORBIDDEN
// names a topic and a group of another tenant.
import { readFileSync } from "node:fs";
import { CompressionTypes, Kafka, logLevel } from "kafkajs";
import { expect, limitMillis, once, run, within } from "./check.mjs";

const [brokers, ca, account, topic, group, mechanism = "plain"] = process.argv.slice(2);
const token = process.env.TOKEN;
if (!brokers || !ca || !account || !topic || !group || !token) {
  console.error("usage: TOKEN=bps1... node topics.mjs HOST:PORT,... CA.pem ACCOUNT TOPIC GROUP [plain|oauthbearer]");
  process.exit(2);
}
const forbidden = process.env.FORBIDDEN;
const connect = (token) => new Kafka({
  clientId: "kafkajs", brokers: brokers.split(","), ssl: { ca: [readFileSync(ca)] },
  sasl: mechanism === "plain" ? { mechanism, username: account, password: token }
    : { mechanism, oauthBearerProvider: async () => ({ value: token }) },
  logLevel: process.env.VERBOSE ? logLevel.DEBUG : logLevel.NOTHING, retry: { retries: 8, initialRetryTime: 200 },
  connectionTimeout: limitMillis, authenticationTimeout: limitMillis, // its second for TCP and TLS is short on a busy machine
});
const kafka = connect(token);
const total = 300;

async function refused(promise, code, what) {
  try {
    await promise;
  } catch (e) {
    const name = e.type ?? e.cause?.type ?? e.originalError?.type;
    expect(name === code || e.message.includes(code), `${what}: refused with ${name}: ${e.message}`);
    return `refused with ${code}`;
  }
  throw new Error(`${what} was not refused`);
}

const steps = [
  ["metadata", async () => {
    const admin = kafka.admin();
    await admin.connect();
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    const { brokers } = await admin.describeCluster();
    await admin.disconnect();
    expect(topics[0].partitions.length > 0, "the topic has no partitions");
    return `${topics[0].partitions.length} partitions, ${brokers.length} brokers`;
  }],
  ["produce", async () => {
    const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false });
    await producer.connect();
    for (let k = 0; k < total; k += 100) {
      const messages = Array.from({ length: 100 }, (_, i) => ({ key: `key ${(k + i) % 7}`, value: `value ${k + i}`, headers: { n: String(k + i) } }));
      const answers = await producer.send({ topic, acks: -1, compression: k ? CompressionTypes.GZIP : CompressionTypes.None, messages });
      expect(answers.every((a) => a.errorCode === 0), JSON.stringify(answers));
    }
    await producer.disconnect();
    return `${total} records, idempotent, gzip`;
  }],
  ["consume", async () => {
    const consumer = kafka.consumer({ groupId: group, allowAutoTopicCreation: false });
    const seen = new Map();
    const { promise, done } = once();
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await consumer.run({
      eachMessage: async ({ partition, message }) => {
        expect(!seen.has(message.value.toString()), `${message.value} came twice`);
        expect(`value ${message.headers.n}` === message.value.toString(), "a header changed");
        seen.set(message.value.toString(), partition);
        if (seen.size === total) done();
      },
    });
    await within(promise, "records of the group");
    await consumer.stop();
    await consumer.disconnect(); // commits
    return `${seen.size} records of ${new Set(seen.values()).size} partitions, each once`;
  }],
  ["offsets", async () => {
    const admin = kafka.admin();
    await admin.connect();
    const [{ partitions }] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
    const ends = await admin.fetchTopicOffsets(topic);
    const sum = (list) => list.reduce((n, p) => n + Math.max(Number(p.offset), 0), 0);
    expect(sum(partitions) === total && sum(ends) === total, `committed ${JSON.stringify(partitions)}, ends ${JSON.stringify(ends)}`);
    const { groups } = await admin.describeGroups([group]);
    await admin.disconnect();
    return `${total} committed; the group is ${groups[0].state}`;
  }],
  ["wrong token", async () => {
    const admin = connect(token.slice(0, -9) + "AAAAAAAAA").admin({ retry: { retries: 0 } });
    return refused(admin.connect().finally(() => admin.disconnect()), "SASL", "a changed token");
  }],
];
if (forbidden) {
  steps.push(["forbidden topic", async () => {
    const producer = kafka.producer({ allowAutoTopicCreation: false, retry: { retries: 0 } });
    await producer.connect();
    try {
      return await refused(producer.send({ topic: forbidden, messages: [{ value: "x" }] }), "TOPIC_AUTHORIZATION_FAILED", "another tenant's topic");
    } finally {
      await producer.disconnect();
    }
  }], ["forbidden group", async () => {
    const consumer = kafka.consumer({ groupId: forbidden, retry: { retries: 0 } });
    const crashed = once();
    consumer.on(consumer.events.CRASH, ({ payload }) => crashed.done(payload.error));
    await consumer.connect();
    await consumer.subscribe({ topics: [topic] });
    const started = consumer.run({ eachMessage: async () => {} }).then(() => crashed.promise).then((e) => Promise.reject(e));
    try {
      // kafkajs asks every broker for the coordinator and keeps the code it got (GROUP_AUTHORIZATION_FAILED) to itself.
      return await refused(within(started, "a refusal"), "Failed to find group coordinator", "another tenant's group");
    } finally {
      await consumer.disconnect();
    }
  }]);
}
await run(`kafkajs ${mechanism}`, steps);
