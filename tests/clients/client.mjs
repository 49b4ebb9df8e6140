// Drives a cluster with a client library from npm, in its ordinary ways, then writes in cluster mode for some seconds
// while somebody kills nodes, and reads back all that was acknowledged.
//
//   node client.mjs ioredis|redis PORT,PORT,... SECONDS
//
// Prints `ready` when the writing begins, at last a line of JSON; exits with 0 if everything was as it should be.
import assert from 'node:assert/strict';

const [library, portList, seconds] = process.argv.slice(2);
const ports = portList.split(',').map(Number);
const host = '127.0.0.1';
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function ordinaryIoredis() {
  const { default: Redis } = await import('ioredis');
  const client = new Redis(ports[0], host, { connectionName: 'tests' });
  assert.equal(await client.set('io:a', '1', 'EX', 100), 'OK');
  assert.equal(await client.get('io:a'), '1');
  assert.equal(await client.incrby('io:a', 5), 6);
  assert.ok((await client.ttl('io:a')) > 90);
  assert.deepEqual(await client.mget('io:a', 'io:none'), ['6', null]);
  assert.deepEqual(await client.getBuffer('io:a'), Buffer.from('6'));
  const pipeline = client.pipeline();
  for (let i = 0; i < 200; i++) pipeline.set(`io:p${i}`, i).get(`io:p${i}`);
  const replies = await pipeline.exec();
  assert.equal(replies.length, 400);
  replies.forEach(([error, value], i) => assert.equal(error ?? value, i % 2 === 0 ? 'OK' : String((i - 1) / 2)));
  assert.deepEqual(await client.multi().set('io:m1', 1).incr('io:m2').exec(), [[null, 'OK'], [null, 1]]);
  await client.watch('io:a');
  const other = client.duplicate();
  await other.set('io:a', 'changed');
  assert.equal(await client.multi().get('io:a').exec(), null);
  const seen = new Set();
  for await (const keys of client.scanStream({ match: 'io:p*', count: 50 })) keys.forEach((key) => seen.add(key));
  assert.equal(seen.size, 200);
  await assert.rejects(client.incr('io:a'), /not an integer/);
  assert.equal(await client.client('GETNAME'), 'tests');
  await other.quit();
  await client.quit();
}

async function ordinaryRedis() {
  const { createClient, WatchError } = await import('redis');
  const client = createClient({ url: `redis://${host}:${ports[0]}`, name: 'tests' });
  await client.connect();
  assert.equal(await client.set('nr:a', '1', { EX: 100 }), 'OK');
  assert.equal(await client.get('nr:a'), '1');
  assert.equal(await client.incrBy('nr:a', 5), 6);
  assert.ok((await client.ttl('nr:a')) > 90);
  assert.deepEqual(await client.mGet(['nr:a', 'nr:none']), ['6', null]);
  const replies = await Promise.all(Array.from({ length: 200 }, (_, i) => client.set(`nr:p${i}`, String(i))));
  assert.ok(replies.every((reply) => reply === 'OK'));
  assert.deepEqual(await client.multi().set('nr:m1', '1').incr('nr:m2').exec(), ['OK', 1]);
  await assert.rejects(client.executeIsolated(async (isolated) => {
    await isolated.watch('nr:a');
    await client.set('nr:a', 'changed');
    return isolated.multi().get('nr:a').exec();
  }), WatchError);
  const seen = new Set();
  for await (const key of client.scanIterator({ MATCH: 'nr:p*', COUNT: 50 })) seen.add(key);
  assert.equal(seen.size, 200);
  await assert.rejects(client.incr('nr:a'), /not an integer/);
  assert.equal(await client.clientGetName(), 'tests');
  await client.quit();
}

// {set(key, value), get(key), quit()} of a client in cluster mode.
async function clusterIoredis() {
  const { Cluster } = await import('ioredis');
  const cluster = new Cluster(ports.map((port) => ({ host, port })), {
    clusterRetryStrategy: () => 50, retryDelayOnFailover: 50, retryDelayOnClusterDown: 50, slotsRefreshInterval: 500,
    redisOptions: { connectTimeout: 1000, maxRetriesPerRequest: 1 },
  });
  cluster.on('error', () => {});
  await new Promise((ready) => cluster.once('ready', ready));
  assert.equal(cluster.nodes('master').length, ports.length);
  return { set: (k, v) => cluster.set(k, v), get: (k) => cluster.get(k), quit: () => cluster.disconnect() };
}

async function clusterRedis() {
  const { createCluster } = await import('redis');
  const cluster = createCluster({
    rootNodes: ports.map((port) => ({ url: `redis://${host}:${port}` })),
    defaults: { socket: { connectTimeout: 1000, reconnectStrategy: () => 50 } },
  });
  cluster.on('error', () => {});
  await cluster.connect();
  return { set: (k, v) => cluster.set(k, v), get: (k) => cluster.get(k), quit: () => cluster.disconnect() };
}

// A command that a library holds back for ever must not hold up the test.
function within(ms, promise) {
  promise.catch(() => {});
  let timer;
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error('late')), ms); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function writer(cluster, name, until, acknowledged, failures) {
  for (let i = 0; Date.now() < until; i++) {
    const key = `${library}:${name}:${i}`;
    try {
      if (await within(5000, cluster.set(key, String(i))) === 'OK') acknowledged.set(key, String(i));
    } catch (error) {
      failures.push(String(error.message));
      await sleep(20);
    }
  }
}

async function readBack(cluster, key) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await within(5000, cluster.get(key));
    } catch (error) {
      if (attempt > 100) throw error;
      await sleep(50);
    }
  }
}

await (library === 'ioredis' ? ordinaryIoredis() : ordinaryRedis());
const cluster = await (library === 'ioredis' ? clusterIoredis() : clusterRedis());
console.log('ready');
const acknowledged = new Map();
const failures = [];
const until = Date.now() + Number(seconds) * 1000;
await Promise.all(Array.from({ length: 8 }, (_, n) => writer(cluster, n, until, acknowledged, failures)));
let lost = 0;
for (const [key, value] of acknowledged) {
  if (await readBack(cluster, key) !== value) lost++;
}
await cluster.quit();
console.log(JSON.stringify({ acknowledged: acknowledged.size, failed: failures.length, why: [...new Set(failures)], lost }));
process.exit(lost === 0 && acknowledged.size > 0 ? 0 : 1);
