package sluice;

import jakarta.servlet.DispatcherType;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Properties;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.FilterHolder;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.http.UriCompliance;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.server.handler.GracefulHandler;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/**
 * Iceberg's REST catalog on one address, for those who have a token: Iceberg's own main class listens on all
 * addresses, and asks for no login. Without generics and lambdas, which its compiler (Janino) lacks.
 */
public final class CatalogServer {
    private static final long STOP_MILLISECONDS = 5000L;

    /** `file`: java.util.Properties with `host`, `port`, `threads`, `name`, `catalog.…` of Iceberg, and `reader.…`
     * and `writer.…`, each a token. */
    public static Server open(String file) throws IOException {
        Properties settings = read(file);
        // It reaches its database, or does not start.
        RESTCatalogAdapter adapter = new RESTCatalogAdapter(CatalogUtil.buildIcebergCatalog(
            settings.getProperty("name"), below("catalog.", settings), null));
        ServletContextHandler context = new ServletContextHandler();
        context.addServlet(new ServletHolder(new RESTCatalogServlet(adapter)), "/*");
        Filter tokens = new Tokens(below("reader.", settings), below("writer.", settings));
        context.addFilter(new FilterHolder(tokens), "/*", EnumSet.of(DispatcherType.REQUEST));
        Server server = new Server(new QueuedThreadPool(Integer.parseInt(settings.getProperty("threads"))));
        ServerConnector connector = new ServerConnector(server);
        connector.setHost(settings.getProperty("host"));
        connector.setPort(Integer.parseInt(settings.getProperty("port")));
        // Between the parts of a namespace Iceberg's clients send %1F: Spark looks for a table `raw.a.branch_b`
        // first, and takes no other answer than that there is none.
        HttpConnectionFactory http =
            (HttpConnectionFactory) connector.getConnectionFactory(HttpConnectionFactory.class);
        http.getHttpConfiguration().setUriCompliance(UriCompliance.DEFAULT.with(
            "iceberg", new UriCompliance.Violation[] {UriCompliance.Violation.SUSPICIOUS_PATH_CHARACTERS}));
        server.addConnector(connector);
        // A commit that is under way gets its answer.
        server.setHandler(new GracefulHandler(context));
        server.setStopTimeout(STOP_MILLISECONDS);
        server.setStopAtShutdown(true);
        return server;
    }

    private static Properties read(String file) throws IOException {
        Properties settings = new Properties();
        InputStream opened = new FileInputStream(file);
        try {
            settings.load(opened);
        } finally {
            opened.close();
        }
        return settings;
    }

    private static Map below(String prefix, Properties settings) {
        Map found = new HashMap();
        for (Iterator names = settings.stringPropertyNames().iterator(); names.hasNext(); ) {
            String name = (String) names.next();
            if (name.startsWith(prefix)) {
                found.put(name.substring(prefix.length()), settings.getProperty(name));
            }
        }
        return found;
    }

    /** With a reader's token one may read, with a writer's also change. */
    public static final class Tokens implements Filter {
        private final Map readers;
        private final Map writers;

        public Tokens(Map readers, Map writers) {
            this.readers = readers;
            this.writers = writers;
        }

        public void doFilter(ServletRequest asked, ServletResponse answer, FilterChain chain)
            throws IOException, ServletException {
            HttpServletRequest request = (HttpServletRequest) asked;
            HttpServletResponse response = (HttpServletResponse) answer;
            String method = request.getMethod();
            boolean reads = "GET".equals(method) || "HEAD".equals(method);
            boolean changes = "POST".equals(method) || "DELETE".equals(method);
            boolean writes = has(writers, request);
            if (!writes && !has(readers, request)) {
                refuse(response, 401, "NotAuthorizedException", "no token, or an unknown one");
            } else if (request.getRequestURI().equals("/v1/oauth/tokens")) {
                // Iceberg's adapter gives a token to anyone who asks, and none of these would be let in here.
                refuse(response, 404, "NoSuchEndpointException", "tokens are not exchanged here");
            } else if (reads || (writes && changes)) {
                chain.doFilter(asked, answer);
            } else {
                refuse(response, 403, "ForbiddenException", "this token may read only");
            }
        }

        private static boolean has(Map tokens, HttpServletRequest request) {
            String header = request.getHeader("Authorization");
            if (header == null || !header.startsWith("Bearer ")) {
                return false;
            }
            byte[] given = header.substring("Bearer ".length()).getBytes(StandardCharsets.UTF_8);
            boolean found = false;
            for (Iterator known = tokens.values().iterator(); known.hasNext(); ) {
                // In the same time, however much of it is right.
                byte[] token = ((String) known.next()).getBytes(StandardCharsets.UTF_8);
                found = MessageDigest.isEqual(token, given) || found;
            }
            return found;
        }

        private static void refuse(HttpServletResponse response, int code, String type, String message)
            throws IOException {
            response.setStatus(code);
            response.setContentType("application/json");
            response.getWriter().print(
                "{\"error\":{\"message\":\"" + message + "\",\"type\":\"" + type + "\",\"code\":" + code + "}}");
        }
    }
}
