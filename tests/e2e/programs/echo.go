// Echo in Go, which makes its system calls itself: `echo server PORT` or `echo client PORT BYTES`.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
)

func main() {
	address := "127.0.0.1:" + os.Args[2]
	if os.Args[1] == "server" {
		serve(address)
	}
	size, _ := strconv.Atoi(os.Args[3])
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*31 + size)
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		panic(err)
	}
	go func() {
		c.Write(data)
		c.(*net.TCPConn).CloseWrite()
	}()
	back, err := io.ReadAll(c)
	fmt.Println(len(back), "bytes back, same", bytes.Equal(back, data), err)
}

func serve(address string) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		panic(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			io.Copy(c, c)
			c.Close()
		}()
	}
}
