// Crawls the benchmark's sites with Crawlee's CheerioCrawler, its fast HTTP crawler, tuned for speed by documented options.
//
// Usage: crawl.mjs SEEDS CONCURRENCY, where SEEDS is a file of one URL a line.
import { readFileSync } from 'node:fs';
import { Agent } from 'node:http';
import { CheerioCrawler, Configuration, LogLevel, log } from '@crawlee/cheerio';
import { MemoryStorage } from '@crawlee/memory-storage';

const seeds = readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean);
const concurrency = Number(process.argv[3]);

// An idle connection holds on to the parsed page that it was opened for, so that Node's default agent, which keeps them all,
// made this crawl take five times the memory; its share of connections is as many as are used at a time.
const agent = new Agent({ keepAlive: true, maxFreeSockets: Math.ceil(concurrency / seeds.length) });

log.setLevel(LogLevel.OFF);

const config = new Configuration({
    // Queues and state stay in memory: nothing is written to disk.
    storageClient: new MemoryStorage({ persistStorage: false, writeMetadata: false }),
    persistStorage: false,
    // The pool may not slow down for lack of memory: Crawlee assumes a quarter of the machine's by default.
    availableMemoryRatio: 0.9,
});

const crawler = new CheerioCrawler({
    respectRobotsTxtFile: true,
    // The request queue without locks for several clients, which costs less CPU.
    experiments: { requestLocking: false },
    // Concurrency is fixed: the pool neither starts low and grows nor shrinks when it thinks that the CPU is busy.
    minConcurrency: concurrency,
    maxConcurrency: concurrency,
    autoscaledPoolOptions: { desiredConcurrency: concurrency, loggingIntervalSecs: null },
    // No sessions, hence neither cookies nor rotation.
    useSessionPool: false,
    persistCookiesPerSession: false,
    // No search for signs of blocking, no status lines.
    retryOnBlocked: false,
    statusMessageLoggingInterval: 1e6,
    statisticsOptions: { saveErrorSnapshots: false, logIntervalSecs: 1e6 },
    preNavigationHooks: [(_context, gotOptions) => {
        // No made-up browser headers for each request.
        gotOptions.useHeaderGenerator = false;
        gotOptions.decompress = false;
        gotOptions.agent = { http: agent };
    }],
    // All links, whatever their host: the generated sites link only to each other.
    requestHandler: async ({ enqueueLinks }) => {
        await enqueueLinks({ strategy: 'all' });
    },
}, config);

await crawler.run(seeds);
