"""Crawls the benchmark's sites with Scrapy, tuned for speed by its documented settings (its page "Broad Crawls").

Usage: crawl.py SEEDS CONCURRENCY, where SEEDS is a file of one URL a line.
"""

import sys

import scrapy
from scrapy.crawler import CrawlerProcess


class Bench(scrapy.Spider):
    """Follows every link. No allowed_domains: the generated sites link only to each other."""

    name = "bench"

    def start_requests(self):
        with open(sys.argv[1], encoding="utf-8") as seeds:
            for url in seeds:
                yield scrapy.Request(url.strip())

    def parse(self, response):
        # XPath, a set and urljoin cost less CPU than LinkExtractor. Fragments name no other page.
        for href in {h.partition("#")[0] for h in response.xpath("//a/@href").getall()}:
            if href and not href.startswith("mailto:"):
                yield scrapy.Request(response.urljoin(href))


CONCURRENCY = int(sys.argv[2])

process = CrawlerProcess(
    {
        "ROBOTSTXT_OBEY": True,
        # The same number of requests in all, with no smaller limit a host, no delay and no throttle.
        "CONCURRENT_REQUESTS": CONCURRENCY,
        "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENCY,
        "CONCURRENT_REQUESTS_PER_IP": 0,
        "DOWNLOAD_DELAY": 0,
        "AUTOTHROTTLE_ENABLED": False,
        # The queue that the docs advise for many hosts.
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
        # The default reactor: the loop of asyncio on uvloop took as much CPU here.
        "REQUEST_FINGERPRINTER_IMPLEMENTATION": "2.7",
        # Nothing in the log, no console, no parts that this crawl does not need.
        "LOG_ENABLED": False,
        "LOGSTATS_INTERVAL": 0,
        "TELNETCONSOLE_ENABLED": False,
        "MEMUSAGE_ENABLED": False,
        "COOKIES_ENABLED": False,
        "RETRY_ENABLED": False,
        "REDIRECT_ENABLED": False,
        "METAREFRESH_ENABLED": False,
        "COMPRESSION_ENABLED": False,
        "HTTPPROXY_ENABLED": False,
        "REFERER_ENABLED": False,
        "AJAXCRAWL_ENABLED": False,
        # The hosts are addresses: there is nothing to resolve.
        "DNSCACHE_ENABLED": False,
    },
    install_root_handler=False,
)
process.crawl(Bench)
process.start()
