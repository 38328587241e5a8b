// Indexes WARC files with the npm package warcio and prints the lines, unsorted.
// usage: node index.mjs <path of warcio's index.js> <file>...
import { createReadStream } from "node:fs";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";

const [modulePath, ...files] = process.argv.slice(2);
const { CDXIndexer } = await import(pathToFileURL(modulePath));

const indexer = new CDXIndexer({ format: "cdxj" });
await indexer.writeAll(files.map((file) => ({ filename: basename(file), reader: createReadStream(file) })), process.stdout);
