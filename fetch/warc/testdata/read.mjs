// Reads WARC files with the npm package warcio and prints one JSON line a record.
// usage: node read.mjs <path of warcio's index.js> <file>...
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { pathToFileURL } from "node:url";

const [modulePath, ...files] = process.argv.slice(2);
const { WARCParser } = await import(pathToFileURL(modulePath));

for (const file of files) {
  const parser = new WARCParser(createReadStream(file));
  for await (const record of parser) {
    const payload = await record.readFully(false);
    console.log(JSON.stringify({
      file,
      version: record.warcHeaders.statusline,
      offset: parser.offset,
      headers: Object.fromEntries(record.warcHeaders.headers),
      status: record.httpHeaders ? record.httpHeaders.statusline : "",
      payload: Buffer.from(payload).toString("base64"),
      sha1: createHash("sha1").update(payload).digest("hex"),
    }));
  }
}
