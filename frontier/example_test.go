package frontier_test

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
)

// A crawl of two pages: a resolver places the host at its server, a fetcher takes what is due and says what came of it.
func Example() {
	cfg, polite := frontier.Default(), frontier.DefaultPoliteness()
	cfg.MinFreeMiB, polite.MinGap = 0, time.Millisecond
	f, err := frontier.Open("", cfg, polite, frontier.Deps{}) // in memory; a directory survives a restart
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()

	link := func(raw string) frontier.Link {
		u, err := identity.Parse(raw)
		if err != nil {
			fmt.Println(err)
		}
		return frontier.Link{URL: u}
	}
	verdicts, err := f.Add(ctx, []frontier.Link{link("http://example.org/"), link("http://EXAMPLE.org:80/#top")})
	fmt.Println(verdicts, err)

	go func() { // a resolver: hosts come off the disk when a fetcher waits
		if host, err := f.Resolve(ctx); err == nil {
			f.Place(host, []netip.Addr{netip.MustParseAddr("192.0.2.1")}, time.Hour, 0)
		}
	}()
	for range 3 { // robots.txt and two pages
		task, err := f.Take(ctx)
		if err != nil {
			fmt.Println(err)
			break
		}
		out := frontier.Outcome{Ending: frontier.Done, Asked: true}
		switch {
		case task.Kind == frontier.Robots:
			out.Robots = &frontier.RobotsOutcome{Lifetime: 24 * time.Hour}
		case task.URL.Path == "/":
			out.Links = []frontier.Link{link("http://example.org/next")}
		}
		done, err := f.Finish(ctx, task, out)
		fmt.Println(task.Kind, task.URL.Path, "new links:", done.Accepted, err)
	}
	fmt.Println("idle:", f.Idle(0))
	stop()
	fmt.Println(<-ended)
	// Output:
	// [accepted duplicate] <nil>
	// robots /robots.txt new links: 0 <nil>
	// page / new links: 1 <nil>
	// page /next new links: 0 <nil>
	// idle: true
	// <nil>
}
