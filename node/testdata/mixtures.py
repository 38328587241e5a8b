"""Crawls from one page with Scrapy as its documentation shows it: a CrawlSpider that follows all links to some domains.

Usage: mixtures.py SEED DOMAIN...
"""

import sys

from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule


class Mixture(CrawlSpider):
    name = "mixture"
    start_urls = [sys.argv[1]]
    allowed_domains = sys.argv[2:]
    rules = [Rule(LinkExtractor())]


process = CrawlerProcess({"ROBOTSTXT_OBEY": True, "LOG_ENABLED": False, "TELNETCONSOLE_ENABLED": False})
process.crawl(Mixture)
process.start()
