import java.io.DataInputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.zip.CRC32;

/** Echo with java.net or java.nio: {@code Sockets server|nioserver|client|nioclient PORT}. */
public class Sockets {
    static byte[] data(int n) {
        byte[] b = new byte[n];
        for (int i = 0; i < n; i++) b[i] = (byte) (i * 31 + n);
        return b;
    }

    static String sum(byte[] b) {
        CRC32 c = new CRC32();
        c.update(b);
        return b.length + " " + Long.toHexString(c.getValue());
    }

    static void server(int port) throws Exception {
        try (ServerSocket listener = new ServerSocket(port, 50, InetAddress.getByName("127.0.0.1"))) {
            while (true) {
                Socket s = listener.accept();
                new Thread(() -> echo(s)).start();
            }
        }
    }

    static void echo(Socket s) {
        try (s; InputStream in = s.getInputStream(); OutputStream out = s.getOutputStream()) {
            byte[] buf = new byte[20000];
            for (int n; (n = in.read(buf)) > 0; ) out.write(buf, 0, n);
        } catch (Exception e) {
            System.err.println(e);
        }
    }

    static void client(int port) throws Exception {
        for (int n : new int[] {1, 1000, 70000, 500000}) {
            try (Socket s = new Socket("127.0.0.1", port)) {
                byte[] sent = data(n);
                Thread writer = new Thread(() -> {
                    try {
                        s.getOutputStream().write(sent);
                        s.shutdownOutput();
                    } catch (Exception e) {
                        System.out.println(e);
                    }
                });
                writer.start();
                byte[] back = s.getInputStream().readAllBytes();
                writer.join();
                System.out.println(sum(back) + " " + Arrays.equals(sent, back));
            }
        }
        try (Socket s = new Socket("127.0.0.1", port)) {
            s.getOutputStream().write(data(10));
            new DataInputStream(s.getInputStream()).readFully(new byte[10]);
            s.setSoTimeout(100);
            try {
                s.getInputStream().read();
            } catch (SocketTimeoutException e) {
                System.out.println("timed out as asked");
            }
            closeWhileReading(s);
        }
    }

    /** The JDK wakes a reader by dup2 and a signal. */
    static void closeWhileReading(Socket s) throws Exception {
        s.setSoTimeout(0);
        Thread reader = new Thread(() -> {
            try {
                System.out.println(s.getInputStream().read());
            } catch (Exception e) {
                System.out.println("reader: " + e.getClass().getSimpleName());
            }
        });
        reader.start();
        Thread.sleep(100);
        s.close();
        reader.join();
    }

    static void nioServer(int port) throws Exception {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(new InetSocketAddress("127.0.0.1", port)).configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        while (true) {
            selector.select();
            for (SelectionKey key : selector.selectedKeys()) {
                if (key.isAcceptable()) {
                    SocketChannel c = listener.accept();
                    c.configureBlocking(false);
                    c.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(30000));
                } else {
                    serve(key);
                }
            }
            selector.selectedKeys().clear();
        }
    }

    static void serve(SelectionKey key) throws Exception {
        SocketChannel c = (SocketChannel) key.channel();
        ByteBuffer b = (ByteBuffer) key.attachment();
        int n = key.isReadable() && b.hasRemaining() ? c.read(b) : 0;
        b.flip();
        c.write(b);
        b.compact();
        if (n < 0 && b.position() == 0) c.close();
        else key.interestOps((b.position() > 0 ? SelectionKey.OP_WRITE : 0) | (b.hasRemaining() && n >= 0 ? SelectionKey.OP_READ : 0));
    }

    static void nioClient(int port) throws Exception {
        for (int n : new int[] {5, 40000, 600000}) {
            Selector selector = Selector.open();
            SocketChannel c = SocketChannel.open();
            c.configureBlocking(false);
            SelectionKey key = c.register(selector, SelectionKey.OP_CONNECT);
            if (c.connect(new InetSocketAddress("127.0.0.1", port))) key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
            ByteBuffer out = ByteBuffer.wrap(data(n));
            ByteBuffer in = ByteBuffer.allocate(n);
            while (in.hasRemaining()) {
                selector.select();
                selector.selectedKeys().clear();
                if (c.isConnectionPending() && c.finishConnect()) key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
                if (!c.isConnected()) continue;
                if (out.hasRemaining()) c.write(out);
                else key.interestOps(SelectionKey.OP_READ);
                if (c.read(in) < 0) throw new Exception("EOF");
            }
            c.shutdownOutput();
            System.out.println(sum(in.array()) + " " + Arrays.equals(in.array(), data(n)));
            c.close();
        }
    }

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        switch (args[0]) {
            case "server" -> server(port);
            case "nioserver" -> nioServer(port);
            case "client" -> client(port);
            default -> nioClient(port);
        }
    }
}
